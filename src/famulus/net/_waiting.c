/* wait(epoll, until_ns, longest_ms, sources, alone) -> those of `sources`, by descriptor, that have news by `until_ns`.
 *
 * `alone`: no other thread of this process runs Python, so nobody wants the interpreter's lock while we sleep.
 *
 * Like select.epoll.poll() and a dict lookup for each event, without the floats, tuples and integers in between:
 * a process that serves one task at a time waits once for each message.
 */
#include "_pump.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

enum { EVENTS_MAX = 64 }; /* whatever else has news is reported by the next wait */
enum { NS_PER_MS = 1000 * 1000 };

static int timeout_ms(long long until_ns, int longest_ms) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long left_ns = until_ns - ((long long)now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec);
    if (left_ns <= 0) {
        return 0;
    }
    /* Rounded up: waking too early would mean waiting once more. */
    long long left_ms = (left_ns - 1) / NS_PER_MS + 1;
    return left_ms < longest_ms ? (int)left_ms : longest_ms;
}

/* The number of events, or -1 with an exception set. */
static int wait_for(int epoll, long long until_ns, int longest_ms, int alone, struct epoll_event *events) {
    while (1) {
        int timeout = timeout_ms(until_ns, longest_ms), count;
        PyThreadState *released = alone ? NULL : PyEval_SaveThread();
        count = epoll_wait(epoll, events, EVENTS_MAX, timeout);
        if (released != NULL) {
            PyEval_RestoreThread(released);
        }
        if (count >= 0) {
            return count;
        }
        if (errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
}

PyObject *waiting_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    if (nargs != 5 || !PyDict_CheckExact(args[3])) {
        PyErr_SetString(PyExc_TypeError, "wait() takes an epoll descriptor, an instant, milliseconds, a dict and a bool");
        return NULL;
    }
    int epoll = (int)PyLong_AsLong(args[0]);
    long long until_ns = PyLong_AsLongLong(args[1]);
    int longest_ms = (int)PyLong_AsLong(args[2]);
    int alone = args[4] == Py_True;
    if (PyErr_Occurred()) {
        return NULL;
    }
    struct epoll_event events[EVENTS_MAX];
    int count = wait_for(epoll, until_ns, longest_ms, alone, events);
    PyObject *news = count < 0 ? NULL : PyList_New(0);
    for (int i = 0; news != NULL && i < count; i++) {
        PyObject *descriptor = PyLong_FromLong(events[i].data.fd);
        PyObject *source = descriptor ? PyDict_GetItemWithError(args[3], descriptor) : NULL;
        Py_XDECREF(descriptor);
        if ((source == NULL && PyErr_Occurred()) || (source != NULL && PyList_Append(news, source) < 0)) {
            Py_CLEAR(news);
        }
    }
    return news;
}
