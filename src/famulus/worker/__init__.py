"""For authors of workers: `Worker` takes tasks of its services from a broker and answers them.

Worker       what users see: register functions, run, stop
Shift        one run of a worker: the I/O thread between the broker and the runners; calls quick functions itself
Place        a session at one broker, the line that it runs over, and where it goes next, with a look at the preferred
             broker while another one is served; a shift has one or several
News         what people are told about a worker: ready, lost, refused, back
SavedConfig  what the brokers said about their family, on disk for the next start
Runner       runs the functions: Threads, Coroutines or Processes
Nursery      the single-threaded process that forks the children of Processes
"""
