"""Leaves: assay's building blocks inside other libraries. Each is imported by whoever uses it, and by nothing here."""
