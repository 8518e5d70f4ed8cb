from leakmeter.commands.study import list_studies as list_studies
from leakmeter.commands.study import study as study
from leakmeter.commands.tokens import tokens as tokens
from leakmeter.engine.loading import forget as forget
from leakmeter.engine.loading import load_backend as load_backend
from leakmeter.engine.loading import load_run as load_run
from leakmeter.errors import LeakmeterError as LeakmeterError
from leakmeter.instruments.public import *
from leakmeter.meter import Meter as Meter
from leakmeter.models.resolve import list_models as list_models
from leakmeter.models.resolve import pull_model as pull_model
from leakmeter.products.doctor.api import doctor as doctor
from leakmeter.products.doctor.installation import check_installation as check_installation
from leakmeter.products.ledger.guard import Guard as Guard
from leakmeter.results.results import Results as Results
from leakmeter.results.run import Run as Run
from leakmeter.runs import compare_runs as compare_runs
from leakmeter.runs import export_run as export_run
from leakmeter.runs import gate as gate
from leakmeter.runs import list_runs as list_runs
from leakmeter.runs import query as query
from leakmeter.runs import rename_run as rename_run
from leakmeter.runs import save_report as save_report
from leakmeter.runs import schema as schema
from leakmeter.runs import verify_run as verify_run
from leakmeter.runs import write_baseline as write_baseline

__version__: str
