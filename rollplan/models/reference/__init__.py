"""Published numbers about GPUs, models, kernels, training, weight sync and prices, as data files of the package."""
