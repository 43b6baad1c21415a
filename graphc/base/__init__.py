"""What every layer stands on: errors, source locations, options, the target machine."""
