"""An interpreter that checks what C takes on trust."""
