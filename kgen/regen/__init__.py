"""`kgen regen`: specs x devices, emitted, checked and measured, on one machine or many; stopped and gone on at will."""
