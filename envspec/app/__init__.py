"""The application floor: what each command does, as functions from requests to results. It prints nothing."""
