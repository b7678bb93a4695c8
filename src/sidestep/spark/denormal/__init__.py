"""Denormalization: tables that queries join, joined once and laid out as one."""
