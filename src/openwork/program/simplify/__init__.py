"""Programs as short as what is known of them allows: dead code, invariant loads, bounds."""
