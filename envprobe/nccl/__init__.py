"""What NCCL wrote: the grammar of its log, its parameters and its configuration files."""
