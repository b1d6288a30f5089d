"""What a job leaves under `high-availability.storageDir` for whoever goes on with it.

Source: FLIP-383, "The Whole Workflow of Job Recovery".
"""
