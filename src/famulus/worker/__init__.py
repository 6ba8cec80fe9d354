"""What those who write workers use: `Worker` takes tasks of its services from a broker and answers them.

Worker       what users see: register functions, run, stop
Shift        one run of a worker: the I/O thread between the broker and the runners; runs no function itself
Runner       runs the functions: Threads, Coroutines or Processes
Nursery      the single-threaded process that forks the children of Processes
"""
