"""A task's examples as a data set: read back by the library, pushed, pulled and learned from."""

import json

import pytest

datasets = pytest.importorskip("datasets")

from huggingface_hub import DatasetCard, HfApi  # noqa: E402

from hf_attn.hub.client import HubError  # noqa: E402
from hf_attn.hub.dataset import FILES, push_dataset, save_dataset  # noqa: E402
from hf_attn.tasks import build_task  # noqa: E402
from tests.support.commands import in_process, rows_of  # noqa: E402
from tests.support.hub_server import serve_hub  # noqa: E402


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def saved(tmp_path):
    return save_dataset(tmp_path / "additions", build_task("addition", digits=2), training=300, measured=40)


def columns_of(folder):
    return {name: split.to_dict() for name, split in datasets.load_dataset(str(folder)).items()}


def test_the_library_reads_three_splits_of_right_examples_that_share_no_source_and_the_hub_the_card(saved):
    splits, task = columns_of(saved.path), build_task("addition", digits=2)
    assert list(splits) == ["train", "validation", "test"]
    assert {name: len(rows["source"]) for name, rows in splits.items()} == saved.examples
    sources = [set(rows["source"]) for rows in splits.values()]
    assert len(set.union(*sources)) == sum(map(len, sources)) > 300
    for rows in splits.values():
        for source, target in zip(*rows.values(), strict=True):
            assert task.verify(source, target).correct, (source, target)
    measured_on = [task.read_source(ids) for ids in task.held_out(40).input_ids.tolist()]
    assert splits["test"]["source"] == measured_on
    card = DatasetCard.load(saved.path / "README.md")
    (config,) = card.data.configs
    assert [file["path"] for file in config["data_files"]] == list(FILES)
    assert card.data.size_categories == ["n<1K"]
    assert f"| test | {saved.examples['test']} |" in card.text


def test_classes_keep_their_names_and_a_table_s_own_rows_are_kept(tmp_path):
    rows = [json.dumps({"text": f"a text {i}", "label": ("good", "bad")[i % 2]}) for i in range(60)]
    (tmp_path / "table.jsonl").write_text("\n".join(rows))
    task = build_task("csv", path=str(tmp_path / "table.jsonl"))
    saved = save_dataset(tmp_path / "data", task)
    assert sum(saved.examples.values()) == 60
    features = datasets.load_dataset(str(saved.path), split="test").features
    assert features["label"].names == list(task.classes)
    card = (saved.path / "README.md").read_text()
    assert str(tmp_path) not in card
    again = build_task("csv", dataset=str(saved.path))
    assert again.classes == task.classes
    assert len(again.rows) == saved.examples["train"]


def test_running_text_has_one_column(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(f"line {i} says what it has to say" for i in range(60)))
    saved = save_dataset(tmp_path / "data", build_task("text", path=str(tmp_path / "text.txt"), window=16))
    rows = columns_of(saved.path)
    assert all(list(columns) == ["text"] for columns in rows.values())
    assert len(build_task("text", dataset=str(saved.path), window=16).rows) == saved.examples["train"]


def test_pairs_are_learned_from_a_data_set_with_columns_chosen(saved):
    task = build_task("pairs", dataset=str(saved.path), source="target", target="source")
    rows = columns_of(saved.path)["train"]
    assert {row.source for row in task.rows} == set(rows["target"])
    with pytest.raises(ValueError, match="has no column 'question'; it has 'source', 'target'"):
        build_task("pairs", dataset=str(saved.path), source="question").held_out(1)


def test_saving_again_gives_the_same_bytes_and_nothing_else_is_replaced(saved, tmp_path):
    before = {name: (saved.path / name).read_bytes() for name in FILES}
    again = save_dataset(saved.path, build_task("addition", digits=2), training=300, measured=40)
    assert {name: (again.path / name).read_bytes() for name in FILES} == before
    (saved.path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds 'thesis\.txt', which is no part of a data set"):
        save_dataset(saved.path, build_task("copy"))
    assert (saved.path / "thesis.txt").read_text() == "years of work"


# The Hub


def test_other_files_of_a_repo_stay_where_a_data_set_is_pushed_to_it(saved, tmp_path):
    with serve_hub(tmp_path / "served") as hub:
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        api.create_repo("ada/old", repo_type="dataset", private=True)
        api.upload_file(
            path_or_fileobj=b"mine", path_in_repo="notes.txt", repo_id="ada/old", repo_type="dataset"
        )
        *_, pushed = push_dataset(saved.path, "ada/old", token=hub.token, endpoint=hub.endpoint)
        there = hub.repo("ada/old", "dataset").files("main")
        list(push_dataset(saved.path, "ada/new", token=hub.token, endpoint=hub.endpoint))
        assert hub.repo("ada/new", "dataset").settings["private"]
        api.create_repo("ada/seen", repo_type="dataset", private=False)
        with pytest.raises(HubError, match="exists and is public"):
            list(push_dataset(saved.path, "ada/seen", token=hub.token, endpoint=hub.endpoint))
    assert pushed.removed == ()
    assert there["notes.txt"] == b"mine"
    assert set(there) >= {"README.md", *FILES}


def test_a_refused_push_is_a_sentence_and_leaves_the_repo_as_it_was(saved, tmp_path):
    with serve_hub(tmp_path / "served") as hub:
        with pytest.raises(HubError, match="read"):
            list(push_dataset(saved.path, "ada/x", token=hub.read_token, endpoint=hub.endpoint))
        assert ("dataset", "ada/x") not in hub.store.names()
        (saved.path / FILES[0]).write_bytes(b"PAR1 but not really")
        with pytest.raises(ValueError, match="cannot be read"):
            list(push_dataset(saved.path, "ada/x", token=hub.token, endpoint=hub.endpoint))
        (saved.path / FILES[0]).unlink()
        with pytest.raises(FileNotFoundError, match="is no data set"):
            list(push_dataset(saved.path, "ada/x", token=hub.token, endpoint=hub.endpoint))
        assert ("dataset", "ada/x") not in hub.store.names()


# The command


def test_the_command_saves_and_says_how_many(tmp_path, capsys):
    small = ("--set", "max_length=4", "--training", "50", "--measured", "10", "--json")
    code, output, _ = in_process(capsys, "dataset", "copy", "--output-dir", tmp_path / "copies", *small)
    (row,) = rows_of(output)
    assert code == 0
    for numbers in ({"training": 0}, {"measured": 2_000_000}):
        with pytest.raises(ValueError, match="must be a whole number from 1 to 1,000,000"):
            save_dataset(tmp_path / "data", build_task("copy"), **numbers)
    assert not (tmp_path / "data").exists()
    assert row["event"] == "dataset"
    assert row["examples"]["test"] == 10
    code, _, errors = in_process(
        capsys, "dataset", "copy", "--output-dir", tmp_path / "copies", "--push", "a b"
    )
    assert code == 2
    assert "A repo cannot be called" in errors
