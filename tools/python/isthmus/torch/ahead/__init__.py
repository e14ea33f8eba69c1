"""Plans a training before it is started: on fake tensors, so that nothing is allocated, for a device that need not be here."""
