// Replaces what the program that preloads it finds below it: its wall clock, and its disk. The file
// $KEYTURN_MACHINE has two numbers, in microseconds: how far the wall clock is ahead of the real
// one, and how much longer the disk takes to keep what was written. redis-server reads its wall
// clock with gettimeofday, and flushes its log with fdatasync.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct machine { long long ahead, flush; };
static volatile struct machine *machine;

__attribute__((constructor)) static void map_machine(void) {
	const char *path = getenv("KEYTURN_MACHINE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *p = mmap(NULL, sizeof(struct machine), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) machine = p;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	struct timespec ts;
	(void)tz;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	long long us = ts.tv_sec * 1000000LL + ts.tv_nsec / 1000 + (machine ? machine->ahead : 0);
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}

int fdatasync(int fd) {
	if (machine && machine->flush > 0) usleep(machine->flush);
	return syscall(SYS_fdatasync, fd);
}
