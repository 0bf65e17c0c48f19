"""Start the app: `python app.py` is `hf-attn app`, in a clone and in a Space; `--help` lists the options."""

import sys

sys.argv[:1] = ["hf-attn", "app"]

from hf_attn.__main__ import main  # noqa: E402

if __name__ == "__main__":
    main()
