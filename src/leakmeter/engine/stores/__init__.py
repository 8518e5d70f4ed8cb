"""Object stores (S3, Google Cloud Storage, Azure Blob Storage) as places of runs, through the library obstore."""
