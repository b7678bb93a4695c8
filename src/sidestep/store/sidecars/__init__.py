"""Sidecars: small JSON files beside the index, by number or by the address of their content."""
