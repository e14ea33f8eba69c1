"""Which code a machine's GPU is best built for."""

def generation_of(driver_says, compiler_says):
    """The generation as nvcc names it, such as "90"; "" where there is no GPU, or none that the compiler knows.

    Args:
      driver_says: what `nvidia-smi --query-gpu=compute_cap --format=csv,noheader` prints, a GPU a line.
      compiler_says: what `nvcc --list-gpu-code` prints.
    Returns: that of the first GPU.
    """
    generation = driver_says.split("\n")[0].strip().replace(".", "")
    known = [line.strip() for line in compiler_says.split("\n")]
    return generation if "sm_" + generation in known else ""
