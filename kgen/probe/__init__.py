"""`kgen probe`: describes the GPU that is here as a device file, from its driver and from measurements.

driver      what the driver says                                -> Facts
sizes       what is measured on a GPU of these facts            -> Request
measure     runs it in a process of its own                     -> Measurement
measuring   that process; workloads, sensors: torch and the GPU
fitted      constants of the cost model, from a known device
describe    all of it together                                  -> Described
text        Described -> the text of a device file
compare     the loaded file against the shipped one of that name
probe       these steps in their order
"""
