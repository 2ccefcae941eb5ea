"""Tables in files: csv and parquet that are read and written row block by row block, numpy's files beside them."""
