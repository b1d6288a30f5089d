"""What DataStream.cache() costs beside PySpark's cached RDD and PyFlink's DataStream.cache()."""
