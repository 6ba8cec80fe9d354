"""For tests of programs that use Famulus: a real broker that is there for a test, and a stand-in without any process.

from famulus.testing import StandIn, running_broker
"""

from famulus.testing.running_broker import RunningBroker, running_broker
from famulus.testing.stand_in import StandIn

__all__ = ["RunningBroker", "StandIn", "running_broker"]
