"""`bayeseval mexa`: cross-lingual alignment of a model's sentence embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bayeseval.cli._shared import Force, Quiet, StoppedError

__all__ = ["mexa"]


def mexa(
    model: Annotated[
        str, typer.Option(metavar="HF_ID|PATH", help="A model of the Hugging Face Hub or a folder.")
    ],
    parallel: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="One text file per language (eng_Latn.txt), line i parallel."
        ),
    ],
    pivot: Annotated[str, typer.Option(help="The language to compare with.")] = "eng_Latn",
    embedding: Annotated[
        Literal["weighted", "last"],
        typer.Option(help="Position-weighted average of the tokens, or the last token."),
    ] = "weighted",
    pooling: Annotated[
        Literal["mean", "max"], typer.Option(help="How layers become one score.")
    ] = "mean",
    sentences: Annotated[
        int, typer.Option(help="Use the first N lines of every file; 0 is all.")
    ] = 100,
    device: Annotated[
        str, typer.Option(help="auto (all CUDA devices, else the CPU), cpu, cuda, cuda:1.")
    ] = "auto",
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(help="Precision. auto is the model's own, on a CPU float32."),
    ] = "auto",
    token_budget: Annotated[
        int, typer.Option(help="Tokens of one batch, padding included.")
    ] = 4096,
    keep_blank: Annotated[
        bool, typer.Option("--keep-blank", help="Accept blank lines; they cannot score.")
    ] = False,
    save_embeddings: Annotated[
        bool, typer.Option("--save-embeddings", help="Write all embeddings, as safetensors.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder.", show_default="results/mexa/MODEL-EMBEDDING-POOLING-nSENTENCES"
        ),
    ] = None,
    force: Force = False,
    no_figures: Annotated[
        bool, typer.Option("--no-figures", help="Leave out the heat map.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Measure how well a model aligns languages with English (MEXA)."""
    from bayeseval._progress import progress_bar
    from bayeseval.mexa.parallel import read_parallel
    from bayeseval.mexa.report import (
        alignment_folder,
        alignment_preamble,
        format_alignment,
        write_alignment,
    )
    from bayeseval.mexa.run import Settings, align, discard, unfinished
    from bayeseval.output.store import check_target

    texts = read_parallel(parallel, pivot=pivot, sentences=sentences or None, keep_blank=keep_blank)
    settings = Settings(embedding, pooling, device, dtype, token_budget)
    folder = out or alignment_folder(model, embedding, pooling, texts.n)
    check_target(folder, settings.identity(texts), force=force)
    work = unfinished(folder)
    preamble = alignment_preamble(len(texts.texts), texts.n, pivot=pivot, work=work)
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
                progress=progress,
            )
    except KeyboardInterrupt as error:
        kept = f"what is done is kept in {work}, and the same command goes on from there"
        raise StoppedError(kept if work.is_dir() else "") from error
    pooled = aligned.measured.pooled(pooling)
    write_alignment(
        folder,
        aligned.measured.tidy(),
        pooled,
        run=aligned.run,
        embeddings=aligned.embeddings,
        figures=not no_figures,
        force=force,
    )
    discard(work)
    typer.echo(format_alignment(pooled, aligned.measured.notes, pivot=pivot))
    typer.echo(f"\nResults: {folder}")
