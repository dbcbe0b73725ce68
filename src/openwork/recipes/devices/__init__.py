"""Tables of devices, one file each: the numbers by which schedules are chosen without measuring."""
