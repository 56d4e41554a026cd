/* Part of scripts/build-static.sh.
 *
 * The start of a static binary that may lie at any address. That of Debian's musl, 1.2.3, lacks
 * relocations in the short form (RELR), which take a thirtieth of the place. This one applies
 * them too; the rest is what musl's rcrt1.o does. */
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))
#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

int main(int, char **, char **);
int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void));
HIDDEN void _init(void) __attribute__((weak));
HIDDEN void _fini(void) __attribute__((weak));
/* Where the binary lies. */
extern HIDDEN const char __ehdr_start[];

__asm__(".text\n"
        ".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "	xor %ebp, %ebp\n"
        "	mov %rsp, %rdi\n"
        "	.hidden _DYNAMIC\n"
        "	lea _DYNAMIC(%rip), %rsi\n"
        "	and $-16, %rsp\n"
        "	call start_relocated\n"
        "	hlt\n");

/* Nothing here may use what is yet to be relocated. */
HIDDEN void start_relocated(long *stack, const Elf64_Dyn *dynamic)
{
    const uintptr_t base = (uintptr_t)__ehdr_start;
    size_t rela = 0, rela_bytes = 0, relr = 0, relr_bytes = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        switch (dynamic->d_tag) {
        case DT_RELA: rela = dynamic->d_un.d_ptr; break;
        case DT_RELASZ: rela_bytes = dynamic->d_un.d_val; break;
        case DT_RELR: relr = dynamic->d_un.d_ptr; break;
        case DT_RELRSZ: relr_bytes = dynamic->d_un.d_val; break;
        }
    }
    const Elf64_Rela *entry = (const Elf64_Rela *)(base + rela);
    for (size_t left = rela_bytes / sizeof *entry; left > 0; left--, entry++)
        if (ELF64_R_TYPE(entry->r_info) == R_X86_64_RELATIVE)
            *(uintptr_t *)(base + entry->r_offset) = base + entry->r_addend;
    /* An even entry is the place of a word to relocate. The bits of an odd one are the next 63. */
    const uint64_t *word = (const uint64_t *)(base + relr);
    uintptr_t *place = NULL;
    for (size_t left = relr_bytes / sizeof *word; left > 0; left--, word++) {
        if ((*word & 1) == 0) {
            place = (uintptr_t *)(base + *word);
            *place++ += base;
            continue;
        }
        for (size_t bit = 0; bit < 63; bit++)
            if (*word >> (bit + 1) & 1)
                place[bit] += base;
        place += 63;
    }
    __libc_start_main(main, (int)*stack, (char **)(stack + 1), _init, _fini, NULL);
}
