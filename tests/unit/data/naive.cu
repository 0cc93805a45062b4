// Stands for a kernel: the checks of an experiment file look whether it is there, and never at what it holds.
