"""Java's dates: SimpleDateFormat, the calendar behind it, and time zones by their ids and names."""
