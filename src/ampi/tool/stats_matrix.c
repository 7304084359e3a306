/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats_matrix.c: see stats_matrix.h.
 */
#include "ampi/tool/stats_matrix.h"

#include <math.h>

#define SIZE_PX 512 /* of the matrix in the picture */
#define MARGIN_PX 60
#define TICKS 4 /* on each axis, besides the first */

void ampi_stats_print_row(FILE *out, const struct ampi_stats_cell *row)
{
    const char *comma = "";

    if (ampi_stats_n_bins() < ampi_job.n_ranks)
        return;
    fprintf(out, "\"sent_to\": {");
    for (int i = 0; i < ampi_stats_n_bins(); i++)
        if (row[i].n) {
            fprintf(out, "%s\"%d\": [%lld, %lld]", comma, i, (long long)row[i].n, (long long)row[i].n_bytes);
            comma = ", ";
        }
    fprintf(out, "}, ");
}

/* Ticks of both axes, with ranks. */
static void print_axes(FILE *out)
{
    fprintf(out, "<text x=\"%d\" y=\"16\">from rank (down) to rank (right): bytes, logarithmic</text>\n",
            MARGIN_PX);
    for (int i = 0; i <= TICKS; i++) {
        int rank = (int)((int64_t)(ampi_job.n_ranks - 1) * i / TICKS);
        double at = MARGIN_PX + (rank + 0.5) * SIZE_PX / ampi_job.n_ranks;
        if (i > 0 && rank == (int)((int64_t)(ampi_job.n_ranks - 1) * (i - 1) / TICKS))
            continue;
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", at, MARGIN_PX - 8, rank);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", MARGIN_PX - 8, at + 4,
                rank);
    }
}

void ampi_stats_print_matrix(FILE *out, const struct ampi_stats_cell *matrix)
{
    int n = ampi_stats_n_bins(), total_px = SIZE_PX + MARGIN_PX + 20;
    double cell_px = (double)SIZE_PX / n, most = 1;

    for (int i = 0; i < n * n; i++)
        most = fmax(most, (double)matrix[i].n_bytes);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#999\"/>\n",
            total_px, total_px, MARGIN_PX, MARGIN_PX, SIZE_PX, SIZE_PX);
    print_axes(out);
    for (int i = 0; i < n * n; i++) {
        double share = log1p((double)matrix[i].n_bytes) / log1p(most);
        int light = 225 - (int)(200 * share), row = i / n, column = i % n;
        if (matrix[i].n)
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"rgb(%d,%d,255)\">"
                    "<title>%lld messages, %lld B</title></rect>\n",
                    MARGIN_PX + column * cell_px, MARGIN_PX + row * cell_px, cell_px, cell_px, light, light,
                    (long long)matrix[i].n, (long long)matrix[i].n_bytes);
    }
    fprintf(out, "</svg>\n");
}
