"""`bayeseval mexa`: cross-lingual alignment of a model's sentence embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bayeseval.cli._shared import (
    DATA,
    MODEL,
    OUTPUT,
    FigureFormat,
    Force,
    NoFigures,
    Out,
    Quiet,
    StoppedError,
    echo,
    echo_place,
)

__all__ = ["mexa"]

COMPUTATION = "Computation"


def mexa(
    model: Annotated[
        str,
        typer.Option(
            metavar="HF_ID|DIR",
            help="Language model: a name on the Hugging Face Hub or a folder.",
            rich_help_panel=MODEL,
        ),
    ],
    parallel: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Parallel text: one file per language (eng_Latn.txt), line i of every file "
            "is the same sentence.",
            rich_help_panel=DATA,
        ),
    ],
    pivot: Annotated[
        str,
        typer.Option(
            metavar="CODE", help="Language to compare all others with.", rich_help_panel=DATA
        ),
    ] = "eng_Latn",
    embedding: Annotated[
        Literal["weighted", "last"],
        typer.Option(
            metavar="weighted|last",
            help="Sentence embedding: position-weighted average of the tokens, or the last token.",
            rich_help_panel=MODEL,
        ),
    ] = "weighted",
    pooling: Annotated[
        Literal["mean", "max"],
        typer.Option(
            metavar="mean|max", help="How to pool the scores over layers.", rich_help_panel=MODEL
        ),
    ] = "mean",
    sentences: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Use the first N lines of every file; 0 uses all.",
            rich_help_panel=DATA,
        ),
    ] = 100,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="cpu, cuda, cuda:1 or auto (all CUDA devices, otherwise the CPU).",
            rich_help_panel=COMPUTATION,
        ),
    ] = "auto",
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(
            metavar="NAME",
            help="float32, bfloat16, float16 or auto (the model's own; float32 on a CPU).",
            rich_help_panel=COMPUTATION,
        ),
    ] = "auto",
    token_budget: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Tokens in one batch, including padding.",
            rich_help_panel=COMPUTATION,
        ),
    ] = 4096,
    keep_blank: Annotated[
        bool,
        typer.Option(
            "--keep-blank",
            help="Accept blank lines; they count as not aligned.",
            rich_help_panel=DATA,
        ),
    ] = False,
    save_embeddings: Annotated[
        bool,
        typer.Option(
            "--save-embeddings",
            help="Write all embeddings, as safetensors.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT",
            help="Let the workers of the Dask cluster that has this scheduler score the languages.",
            rich_help_panel=COMPUTATION,
        ),
    ] = None,
    out: Out = None,
    force: Force = False,
    no_figures: NoFigures = False,
    figure_format: FigureFormat = "png",
    quiet: Quiet = False,
) -> None:
    """Measure how well a language model aligns languages with English (MEXA)."""
    from bayeseval._progress import progress_bar
    from bayeseval.mexa.parallel import read_parallel
    from bayeseval.mexa.report import (
        alignment_folder,
        alignment_preamble,
        format_alignment,
        write_alignment,
    )
    from bayeseval.mexa.run import KEPT, Settings, align
    from bayeseval.output._locks import alone_in
    from bayeseval.output.store import check_target, discard, unfinished

    texts = read_parallel(parallel, pivot=pivot, sentences=sentences or None, keep_blank=keep_blank)
    settings = Settings(embedding, pooling, device, dtype, token_budget)
    folder = out or alignment_folder(model, embedding, pooling, texts.n)
    check_target(folder, settings.identity(texts), force=force)
    work = unfinished(folder)
    preamble = alignment_preamble(len(texts.texts), texts.n, pivot=pivot, work=work)
    # Until its results are written: another run of this folder would remove the parts of this one.
    with alone_in(work):
        try:
            with progress_bar(preamble, quiet=quiet) as progress:
                aligned = align(
                    model,
                    texts,
                    settings,
                    work=work,
                    folder=None if force else folder,
                    save_embeddings=save_embeddings,
                    bars=not quiet,
                    dask=dask,
                    progress=progress,
                )
        except KeyboardInterrupt as error:
            kept = f"finished work is kept in {work}; run the same command again to continue"
            raise StoppedError(kept if any(work.iterdir()) else "") from error
        pooled = aligned.measured.pooled(pooling)
        write_alignment(
            folder,
            aligned.measured.tidy(),
            pooled,
            run=aligned.run,
            embeddings=aligned.embeddings,
            figures=False if no_figures else figure_format,
            force=force,
        )
        discard(work, *KEPT)
    echo(format_alignment(pooled, aligned.measured.notes, pivot=pivot))
    echo_place("\nResults", folder)
