"""Entry point for `streamlit run`: at the root, so that the packages beside it can be imported."""

from app.main import main

main()
