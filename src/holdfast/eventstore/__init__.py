"""The events of a job, in append-only files that outlive the job's driver.

Source: FLIP-383, "JobEventStore".
"""
