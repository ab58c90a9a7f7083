"""AIR-Bench Foundation: questions of two or four choices about clips, scored without a judge."""
