"""`leakmeter doctor`: whether the numbers of a model, served or in this process, are what measurements take them for.

subject    a model as a dialect, whether it is behind a server or in this process
probes     the texts that are sent
checks     what is examined, a function each
result     what was found, as records
report     the result as blocks: faults by name, in words, and what to do about them
api        what programs call: the checks one after another, and which fault explains what went wrong
"""
