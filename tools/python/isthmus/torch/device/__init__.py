"""Counts what a training holds of its device beside a step, so that a total of the whole device becomes the budget of the step."""
