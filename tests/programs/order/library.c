/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library whose constructor appends the library's letter to the trace of libtrace; with TRACE, libtrace itself.
 */
#ifdef TRACE
char trace[16];

void trace_add(char letter)
{
    static int length;

    trace[length++] = letter;
}
#else
void trace_add(char letter);

__attribute__((constructor)) static void construct(void)
{
    trace_add(LETTER);
}
#endif
