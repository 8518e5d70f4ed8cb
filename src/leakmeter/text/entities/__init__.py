"""Personal data in a text: found by form, by labels and titles, by the user's patterns and by a recogniser."""
