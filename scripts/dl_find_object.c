/* Part of scripts/build-static.sh.
 *
 * Debian's libgcc_eh.a, the unwinder of the static binary, is built for a glibc
 * that has _dl_find_object, which musl lacks. This version uses dl_iterate_phdr,
 * which musl has, to find the loaded object that contains an address. */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>

/* The layout that libgcc_eh expects, see glibc's <dlfcn.h>. */
struct dl_find_object {
    unsigned long long flags;
    void *map_start;
    void *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};

struct query {
    uintptr_t address;
    struct dl_find_object *result;
    int found;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct query *query = data;
    uintptr_t start = 0, end = 0, eh_frame = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && query->address >= at && query->address < at + header->p_memsz) {
            start = at;
            end = at + header->p_memsz;
        }
        if (header->p_type == PT_GNU_EH_FRAME)
            eh_frame = at;
    }
    if (!start || !eh_frame)
        return 0;
    query->result->flags = 0;
    query->result->map_start = (void *)start;
    query->result->map_end = (void *)end;
    query->result->link_map = 0;
    query->result->eh_frame = (void *)eh_frame;
    query->found = 1;
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *result)
{
    struct query query = {(uintptr_t)address, result, 0};
    dl_iterate_phdr(visit, &query);
    return query.found ? 0 : -1;
}
