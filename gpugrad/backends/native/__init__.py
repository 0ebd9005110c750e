"""Native code for the CPU: C that the machine's compiler makes into libraries."""
