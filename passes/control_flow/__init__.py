"""Passes over control flow: known branches, loop invariants, signatures of regions."""
