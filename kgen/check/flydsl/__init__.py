"""FlyDSL's tool chain for CDNA: compiled and read with no AMD GPU, run in the simulator."""
