#define _GNU_SOURCE
#include "next.h"

#include <dlfcn.h>

#define DEFINE(type, name, parameters) type(*next_##name) parameters;
FUNCTIONS(DEFINE)

void find_next_functions(void);

/* Looked up once: dlsym may allocate, and a signal handler may call us. */
void find_next_functions(void)
{
#define FIND(type, name, parameters) *(void **)&next_##name = dlsym(RTLD_NEXT, #name);
	FUNCTIONS(FIND)
}

void ended(uint8_t call, uint8_t flags, uint32_t file, uint64_t start_ns, int64_t result,
	   uint64_t offset, uint64_t size)
{
	uint64_t latency_ns = now_ns() - start_ns;
	int saved = errno;
	struct call_record record = {
		.start_ns = start_ns, .latency_ns = latency_ns, .offset = offset, .size = size,
		.result = result < 0 ? -(int64_t)saved : result, .call = call, .flags = flags,
		.file = file,
	};

	send_call(&record);
	errno = saved;
}
