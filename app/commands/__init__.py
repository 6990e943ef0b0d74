"""What the command line can do, a file for each command or group."""
