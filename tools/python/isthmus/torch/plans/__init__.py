"""Plans one graph: within a budget, and again as long as inductor's code for the plan takes more than it may."""
