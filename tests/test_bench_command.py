"""`bench` measures, and leaves nothing behind."""

import json

from harness.stores import audit, by_status, fill


def test_without_a_database_it_uses_a_file_of_its_own(programs, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = programs.run("bench", "--rows", "500", env={"TMPDIR": str(temporary)}).ok()
    assert "rows/s" in done.stdout and done.stderr == ""
    assert not (tmp_path / "deliverd.db").exists()
    assert list(temporary.iterdir()) == []


def test_on_a_database_it_removes_its_own_rows(store, programs, tmp_path):
    programs.run("bench", "--rows", "5000", "--database", store.url, "--json", "figures.json").ok()
    assert json.loads((tmp_path / "figures.json").read_text())["rows"] == 5000
    assert by_status(store) == {} and audit(store) == []


def test_existing_rows_are_delivered_and_stay(store, programs):
    fill(store, 20)
    programs.run("bench", "--existing", "--database", store.url).ok()
    assert by_status(store) == {"sent": 20}
