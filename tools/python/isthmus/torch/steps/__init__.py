"""Recognizes, records, measures and plans training steps."""
