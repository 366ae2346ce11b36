from tigon.torch.experts import *
from tigon.torch.fp8 import *
from tigon.torch.functional import *
from tigon.torch.modules import *
from tigon.torch.parallel import *
from tigon.torch.ring import *
