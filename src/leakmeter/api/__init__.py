"""What programs call: one verb a module, and `loading` for models and runs."""
