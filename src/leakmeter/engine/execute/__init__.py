"""Work on several processes and machines: which worker has which task, faults, and the engines that run workers."""
