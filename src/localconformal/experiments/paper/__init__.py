"""The tables and figures of the paper, a module each; its ``EXPERIMENT`` is what is run."""
