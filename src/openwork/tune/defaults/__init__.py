"""Tables of devices by which defaults are chosen: fitted to measurements, made by a calibration."""
