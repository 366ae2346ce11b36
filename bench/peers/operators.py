"""All that is compared: each module enters its operators into the table problem.OPERATORS."""

import attention  # noqa: F401
import blocks  # noqa: F401
import experts  # noqa: F401
import losses  # noqa: F401
import positions  # noqa: F401
import products  # noqa: F401
import routing  # noqa: F401
import rows  # noqa: F401
