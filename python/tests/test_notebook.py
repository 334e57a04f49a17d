"""The notebook of the examples is executed as Jupyter does; an interrupt leaves its ranks usable."""

import os
import pathlib
import signal
import threading

import pytest

NOTEBOOK = pathlib.Path(__file__).parents[1] / "examples" / "notebook.ipynb"
LACKS = "SKIPPED: no Jupyter here (pip install nbclient ipykernel)"


def outputs(cell):
    """Returns the texts that a cell has printed or given."""
    texts = (out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs)
    return "".join(texts)


def client(notebook, tmp_path, **settings):
    nbclient = pytest.importorskip("nbclient", reason=LACKS)
    pytest.importorskip("ipykernel", reason=LACKS)
    resources = {"metadata": {"path": str(tmp_path)}}
    return nbclient.NotebookClient(notebook, timeout=60, resources=resources, **settings)


def test_the_notebook_runs(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason=LACKS)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client(notebook, tmp_path).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert outputs(code[1]).count("rank") == 4, code[1].outputs
    assert len(outputs(code[2]).split(",")) == 4, code[2].outputs
    assert "failed: True" in outputs(code[3]), code[3].outputs


def test_an_interrupt_of_a_cell_leaves_the_cluster(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason=LACKS)
    new = nbformat.v4
    notebook = new.new_notebook(
        cells=[
            new.new_code_cell(text)
            for text in (
                "import clump; c = clump.Cluster(2)\nc.run('import clump; w = clump.world()')",
                "try:\n    open('begun', 'w').close()\n    c.run('w.recv()')\n"
                "except KeyboardInterrupt: print('interrupted')",
                "print(c.values('w.rank')); c.close()",
            )
        ]
    )
    runner = client(notebook, tmp_path)
    with runner.setup_kernel():
        runner.execute_cell(notebook.cells[0], 0)
        done = threading.Event()

        def interrupt():
            while not (tmp_path / "begun").exists() and not done.wait(0.01):
                pass
            # Until the cell has ended: a signal may come before the ranks wait.
            while not done.wait(0.3):
                os.kill(runner.km.provisioner.pid, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            runner.execute_cell(notebook.cells[1], 1)
        finally:
            done.set()
            thread.join()
        runner.execute_cell(notebook.cells[2], 2)
    assert "interrupted" in outputs(notebook.cells[1]), notebook.cells[1].outputs
    assert "[0, 1]" in outputs(notebook.cells[2]), notebook.cells[2].outputs
